// The parts of seccomp filters, on every system.

package probe

// InstructionSize is the length of a BPF instruction in bytes (uapi/linux/filter.h, struct
// sock_filter).
const InstructionSize = 8
