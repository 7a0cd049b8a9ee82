// Package install puts vfix's runtime onto a machine: it copies the program to a stable place
// and writes the configuration by which an engine (docker, containerd, CRI-O, podman, and the containerd of
// Kubernetes distributions) offers it as a runtime of that name. It undoes all of this, byte for byte.
//
// The changes are planned first, as a list of changes that can be shown, and then
// written. Each change is recorded in stateFile before it is made, with copies of the original files, so that
// the next run can complete, or undo, a run that was killed between any two steps. Every path is inside a
// root directory, and no symlink leads out of it.
//
// No program is run and no daemon is touched: the result says what to restart. Check alone runs the
// program that is installed.
package install
