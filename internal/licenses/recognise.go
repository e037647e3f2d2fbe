package main

import (
	"slices"
	"strings"
)

// and stands between the names of licences that all apply.
const and = " AND "

// allowed reports whether software under a licence may be linked into a program that is given away under the Apache License. The list has
// licences that ask for their text to go with the program and, MPL-2.0, for changes of its own files to be given away. Of a name with several all must be on it.
func allowed(name string) bool {
	for part := range strings.SplitSeq(name, and) {
		if !slices.Contains([]string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}, part) {
			return false
		}
	}
	return true
}

// recognise names a licence by the sentences that make it what it is; "": none that is known. A text with more than one of them has all of their names.
func recognise(text string) string {
	plain := strings.ToLower(strings.Join(strings.Fields(text), " "))
	plain = strings.NewReplacer("“", `"`, "”", `"`, "’", "'").Replace(plain)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if !strings.Contains(plain, part) {
				return false
			}
		}
		return true
	}
	// The GNU licences first: their texts speak of others, and what is added to a permissive text in the same file counts as well.
	for _, gnu := range []string{"gnu affero general public license version", "gnu lesser general public license version", "gnu general public license version", "gnu library general public license"} {
		if has(gnu) && !has("mozilla public license version 2.0") {
			return "GNU"
		}
	}
	var found []string
	if has("permission is hereby granted, free of charge, to any person obtaining a copy", `the software is provided "as is"`) {
		found = append(found, "MIT")
	}
	if has("apache license version 2.0, january 2004", "grant of copyright license", "grant of patent license") || has(`licensed under the apache license, version 2.0 (the "license")`) {
		found = append(found, "Apache-2.0")
	}
	if has("redistributions of source code must retain the above copyright notice", "redistributions in binary form must reproduce the above copyright notice") {
		switch {
		case has("all advertising materials mentioning"):
			return "BSD-4-Clause"
		case has("neither the name") || has("may not be used to endorse or promote products"):
			found = append(found, "BSD-3-Clause")
		default:
			found = append(found, "BSD-2-Clause")
		}
	}
	if has("permission to use, copy, modify, and", "for any purpose with or without fee is hereby granted") {
		found = append(found, "ISC")
	}
	if has("mozilla public license version 2.0", "1.10. \"modifications\"") {
		found = append(found, "MPL-2.0")
	}
	return strings.Join(found, and)
}
