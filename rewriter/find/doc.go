// Package find finds the references to the vsyscall page in the bytes of an ELF file, and determines how each is
// used. It writes nothing.
//
//	scan search                       a file to a Report: its references
//	functions code judge              the functions around them; the verdict on each
//	program place redirect scope      other questions about a file
package find
