// Package find finds the references to the vsyscall page in the bytes of an ELF file, and determines how each is
// used. It writes nothing.
//
//	scan scanobject scanarchive       a file to a Report; search half: its references
//	functions locate code             which functions are around them
//	refs stub                         references to these addresses, and jumps into them
//	body graph                        their code, and its successors: the control flow graph
//	flow transfer frame               the uses of the address in it
//	verdict slot                      the verdict on a reference
//	program place redirect            other questions about a file
package find
