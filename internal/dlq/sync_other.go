//go:build !unix

package dlq

// syncFolder does nothing where folders cannot be synced; the file system then
// keeps the order of renames by itself or not at all.
func syncFolder(string) error { return nil }
