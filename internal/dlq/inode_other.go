//go:build !unix

package dlq

import "io/fs"

// fileNumber is 0 where the system does not tell it: time and size alone have to tell files apart.
func fileNumber(fs.FileInfo) uint64 { return 0 }
