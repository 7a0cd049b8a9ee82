// Package starts remembers what vfix-runtime did at the start of each container: one line of JSON in
// a file or in the journal (record, write), counters for Prometheus in another file (metrics), and
// the summary of them that an operator asks for (status).
//
// All of it is for people and never a reason to keep a container from starting: nothing is waited
// for, a file is opened for each start and written to once, and what cannot be written is one line in
// the runtime's log.
package starts
