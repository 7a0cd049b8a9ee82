// Package examiner reads the ELF files of images, which may be made to harm whoever reads them, in a
// process of its own that can do nothing else: it opens no file and makes no socket, it is nobody
// without capabilities, its memory and time are bounded. It does not run in the control group of
// the container's pod: others wait for what it finds in a layer, and a pod of little processor time would make them wait
// as long as it likes. Files reach it as open descriptors, one call at a time.
//
// The caller trusts none of its answers further than the file that they are about: the hash of a file
// is the caller's own. A file whose examination ends the process has not been examined; the next file
// gets a new process.
package examiner
