// Package source opens images of registries, engines, archives, layouts and directories, and writes them there.
//
// go-containerregistry speaks to registries and the moby client to engines. Around them is what they lack: each
// byte is verified where it is read, downloads resume, a hanging registry ends in an error, and an output gets its
// name when it is complete.
package source
