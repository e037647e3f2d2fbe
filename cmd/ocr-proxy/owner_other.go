//go:build !unix

package main

// checkOwner knows nothing of owners here.
func checkOwner(string) error { return nil }
