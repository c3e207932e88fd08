#include "membership/etcd/password.h"

#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/secrecy.h"

int password_read(const char *path, char ret_password[PASSWORD_SIZE], struct error *error)
{
    struct bytes text CLEANUP(bytes_forget) = {0};
    ret_password[0] = '\0';
    secrecy_warn_of_file(path, "a password");
    int status = file_read(path, PASSWORD_SIZE - 1, &text, error);
    if (status < 0)
        return status;
    size_t length = strcspn((const char *)text.data, "\r\n");
    memcpy(ret_password, text.data, length);
    ret_password[length] = '\0';
    return 0;
}
