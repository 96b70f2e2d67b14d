/* src/task/spawn/agent_path.h: where libonespace-agent.so is. */
#ifndef ONESPACE_TASK_AGENT_PATH_H
#define ONESPACE_TASK_AGENT_PATH_H

#include <stddef.h>

/* A path to the agent that ld.so's --preload accepts (no blank, no colon), or NULL if there is no
 * agent. Found beside this library, or where ONESPACE_AGENT says. Static storage. */
const char *agent_path(void);

/* The path of another file in the agent's directory; empty if it is not there or does not fit. */
void agent_path_beside(const char *name, char *path, size_t size);

#endif
