/* The log's sink under systemd: native journal entries with fields. */
#pragma once

/** journal_use() - send this process's log there */
void journal_use(void);
