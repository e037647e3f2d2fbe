package dlq

// Set changes what a store that is in use was opened with: its limit in bytes, 0 for none, and whether it keeps payloads. A letter that is being
// written is written either way.
func (s *Store) Set(maxBytes int64, keepPayloads bool) {
	s.keepPayloads.Store(keepPayloads)
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.limit = maxBytes
}
