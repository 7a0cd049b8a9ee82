//go:build !linux

// Systems on which devices and extended attributes of Linux are not made.

package source

import (
	"archive/tar"
	"errors"
	"os"
	"time"
)

func makeNode(*os.Root, string, *tar.Header) (bool, error) { return false, nil }
func setLinkTime(*os.Root, string, time.Time) error        { return nil }
func setXattr(*os.File, string, string) error              { return errors.ErrUnsupported }
