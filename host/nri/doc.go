// Package nri starts the plugin of NRI, which is a program of its own: the libraries of that protocol would
// make each start of vfix longer by a fifth. Package plugin is the plugin.
package nri
