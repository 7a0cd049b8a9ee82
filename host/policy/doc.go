// Package policy is what holds for a start of a container, decided in one place for the three that ask:
// the runtime vfix-runtime, its OCI hook and the NRI plugin.
//
//	config    the configuration file, which an operator writes: its content, defaults and checks
//	inforce   which configuration is in force: that of the file, else the last good one, else the closed default
//	decide    what the annotations of a container change about it
//
// One rule: nothing that is broken, missing or unknown makes the policy less strict. Only an operator's
// correct file does, and an annotation only as far as that file permits it.
package policy
