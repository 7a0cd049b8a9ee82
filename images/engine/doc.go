// Package engine asks the API of a docker or podman daemon: the few calls that vfix makes, in docker's words.
package engine
