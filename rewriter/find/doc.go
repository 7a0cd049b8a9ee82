// Package find finds the references to the vsyscall page in the bytes of an ELF file, and determines how each is
// used. It writes nothing.
//
//	scan search                       a file to a Report: its references
//	judge flow                        the verdict on each: straight code, then the flow of one function
//	functions code                    the functions around the references; decoding
//	report reason                     the results
//	goword named program redirect     other questions about a file
package find
