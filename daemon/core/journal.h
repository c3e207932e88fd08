/* Log sink under systemd: native journal entries with fields. */
#pragma once

/** journal_use() - send this process's log to the journal */
void journal_use(void);
