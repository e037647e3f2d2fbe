//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package dlq

import "os"

// lockFile does nothing where flock does not exist: there it is the operator
// who runs one process per folder.
func lockFile(*os.File) error { return nil }
