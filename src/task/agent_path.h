/* src/task/agent_path.h: where libonespace-agent.so is. */
#ifndef ONESPACE_TASK_AGENT_PATH_H
#define ONESPACE_TASK_AGENT_PATH_H

/* A path to the agent that ld.so's --preload can take (no blank, no colon), or NULL when there is
 * no agent. Found beside this library, or where ONESPACE_AGENT says. Static storage. */
const char *agent_path(void);

#endif
