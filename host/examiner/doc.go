// Package examiner reads the ELF files of images, which may be made to harm whoever reads them, in a
// process of its own that can do nothing else: it opens no file and makes no socket, it is nobody
// without capabilities, its memory and time are bounded, and where the container's pod has a control
// group it runs in that. Files reach it as open descriptors, one call at a time.
//
// The caller trusts none of its answers further than the file that they are about: the hash of a file
// is the caller's own. A file whose examination ends the process has not been examined; the next file
// gets a new process.
package examiner
