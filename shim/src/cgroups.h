/*
 * Java's view of control groups: whether a JDK that reads /proc/cgroups is misled here, and the fix. Only
 * the code for files with this fix has it (VFIX_JAVA).
 */
#ifndef VFIX_CGROUPS_H
#define VFIX_CGROUPS_H

#ifdef VFIX_JAVA
/*
 * 1 if the tree of cgroup v2 has cpu and memory, but /proc/cgroups does not list all that a JDK looks for;
 * 0 on other hosts.
 */
int vfix_cgroups_hidden(void);

/* Makes the JDK read /vfix/cgroups instead. The state page is writable. */
void vfix_cgroups_redirect(void);
#else
static inline int vfix_cgroups_hidden(void) { return 0; }
static inline void vfix_cgroups_redirect(void) {}
#endif

#endif
