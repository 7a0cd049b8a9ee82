// Package find says which references to the vsyscall page are in the bytes of an ELF file, and what each is
// used for. It writes nothing.
//
//	scan scanobject scanarchive       a file to a Report; search half: its references
//	functions locate code             which functions are around them
//	refs stub                         what refers to them, and may jump into them
//	body graph                        their code, and its successors: the control flow graph
//	flow transfer frame               what becomes of the address in there
//	verdict slot                      what a reference is
//	program place redirect            what else is asked of a file
package find
