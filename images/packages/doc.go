// Package packages corrects and looks up what package managers record of files.
package packages
