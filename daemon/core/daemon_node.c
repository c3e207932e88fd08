#include "daemon/core/daemon_node.h"

#include "base/json.h"
#include "base/log.h"

void daemon_node_publish(struct daemon_node *node)
{
    AUTO_JSON json_t *tree = node_record_encode(&node->self);
    AUTO_FREE char *text = tree ? json_text(tree) : NULL;

    if (!text || (node->registry && registry_update(node->registry, text)))
        log_error("no memory to publish this node's record");
}
