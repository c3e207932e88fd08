/*
 * firnd's configuration: /etc/firn/firnd.yaml (or --config FILE), then flags of the same names.
 *
 * Every key has a flag ("link_port: 7600" is --link-port 7600); a flag wins over the file. Secrets
 * are never flags: the etcd password and the HTTP token are read from files.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/name.h"

#define CONFIG_TEXT_SIZE    512
#define CONFIG_FOLDER_SIZE  (CONFIG_TEXT_SIZE - 128) /* of folders to which paths are appended */
#define CONFIG_DEFAULT_FILE "/etc/firn/firnd.yaml"

/* Kind of the slots. */
enum config_device { CONFIG_DEVICE_AUTO, CONFIG_DEVICE_CPU, CONFIG_DEVICE_CUDA };

struct config {
    char cluster[NAME_SIZE];
    char node[NAME_SIZE];
    char endpoints[CONFIG_TEXT_SIZE];
    char etcd_user[CONFIG_TEXT_SIZE], etcd_password_file[CONFIG_TEXT_SIZE];
    char etcd_ca[CONFIG_TEXT_SIZE], etcd_certificate[CONFIG_TEXT_SIZE], etcd_key[CONFIG_TEXT_SIZE];
    char address[ADDRESS_SIZE]; /* host part of the links' addresses */
    unsigned link_port;
    char http[ADDRESS_SIZE];           /* "host:port" */
    char http_names[CONFIG_TEXT_SIZE]; /* daemon/config/http_host.h */
    char http_token[CONFIG_TEXT_SIZE]; /* file; empty: no token is needed */
    char http_certificate[CONFIG_TEXT_SIZE], http_key[CONFIG_TEXT_SIZE]; /* empty: no TLS */
    char http_authorities[CONFIG_TEXT_SIZE]; /* for other nodes' certificates */
    char domain[NAME_SIZE];                  /* failure domain; empty: the node itself */
    /* metrics, events, logs of jobs; checkpoints unless set elsewhere */
    char data_dir[CONFIG_TEXT_SIZE];
    char run_dir[CONFIG_TEXT_SIZE]; /* workers' sockets */
    char checkpoint_dir[CONFIG_TEXT_SIZE];
    /* checkpoint/object/object_settings.h; empty: none */
    char object_store[CONFIG_TEXT_SIZE];
    char worker[CONFIG_TEXT_SIZE]; /* the firn-worker program */
    enum config_device device;
    unsigned slots, threads;
    unsigned slot_memory_mb;     /* 0: the slot's share of the machine */
    bool link_checksums;         /* link_seals: authenticated | checksums */
    bool link_any_address;       /* link_addresses: plan | any */
    bool device_digests;         /* device_seals: none | digests */
    uint64_t failure_timeout_ns; /* file and flag: failure_timeout_ms */
    uint64_t drain_timeout_ns;   /* file and flag: drain_timeout_s */
    uint64_t keep_finished_ns;   /* file and flag: keep_finished_days; 0: for ever */
    bool journal;                /* log: journal | stderr */
};

/**
 * config_load() - read the defaults, then the file, then the flags
 *
 * The default file may be missing; a file named by --config may not. Return: 0; 1: --help or
 * --version was printed; -EINVAL and others: @error names the file, the line or the flag, and the
 * allowed values.
 */
int config_load(int argc, char **argv, struct config *ret_config, struct error *error) CHECK_RESULT;
