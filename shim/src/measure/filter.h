/* The parts of a seccomp filter; musl-gcc has no kernel headers. Sources:
 * uapi/linux/filter.h, bpf_common.h, seccomp.h. */
#ifndef VFIX_FILTER_H
#define VFIX_FILTER_H

#include <stdint.h>

struct sock_filter {
	uint16_t code;
	uint8_t jt, jf;
	uint32_t k;
};

struct sock_fprog {
	unsigned short len;
	struct sock_filter *filter;
};

enum {
	LOAD_WORD = 0x20,		/* BPF_LD | BPF_W | BPF_ABS */
	JUMP_IF_EQUAL = 0x15,		/* BPF_JMP | BPF_JEQ | BPF_K */
	RETURN = 0x06,			/* BPF_RET | BPF_K */
	DATA_NR = 0,			/* offset of nr in struct seccomp_data */
	FILTER_MOST = 4096,		/* instructions: BPF_MAXINSNS */
	SECCOMP_SET_MODE_FILTER = 1,
};
#define RET_ERRNO 0x00050000u		/* SECCOMP_RET_ERRNO, the errno below */
#define RET_ALLOW 0x7fff0000u

#endif
