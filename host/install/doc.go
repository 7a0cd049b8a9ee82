// Package install puts vfix's runtime onto a machine: it copies the program to a stable place
// and writes the configuration by which an engine (docker, containerd, CRI-O, podman, and what
// Kubernetes distributions make of containerd) offers it as a runtime of that name. It takes
// all of it back, to the byte.
//
// The changes are planned first, as a list of changes that can be shown, and then
// written. Each change is recorded in stateFile before it is made, with copies of what was
// there, so that a run that is killed between any two steps can be taken up, or taken back, by
// the next. Every path is one inside a root folder and is not left by way of a symlink.
//
// No program is run and no daemon is touched: the result says what to restart. Check alone runs the
// program that is installed.
package install
