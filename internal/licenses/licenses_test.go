package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	mit  = "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof this software … THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY"
	bsd2 = "Redistributions of source code must retain the above copyright notice, … Redistributions in binary form must reproduce the above\n copyright notice, …"
	isc  = "Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"
	gpl  = "GNU GENERAL PUBLIC LICENSE\n  Version 3, 29 June 2007"
)

func TestLicencesAreRecognised(t *testing.T) {
	t.Parallel()
	own, err := os.ReadFile("../../LICENSE")
	require.NoError(t, err)
	for _, c := range []struct {
		text, name string
		allowed    bool
	}{
		{string(own), "Apache-2.0", true},
		{strings.ReplaceAll(string(own), "\n", "\r\n"), "Apache-2.0", true},
		{mit, "MIT", true},
		{bsd2, "BSD-2-Clause", true},
		{bsd2 + " Neither the name of the authors", "BSD-3-Clause", true},
		{bsd2 + " All advertising materials mentioning features", "BSD-4-Clause", false},
		{isc, "ISC", true},
		{mit + "\n\n" + string(own), "MIT AND Apache-2.0", true},
		{gpl, "GNU", false},
		{string(own) + bsd2, "Apache-2.0 AND BSD-2-Clause", true},
		{mit + "\n\n" + gpl, "GNU", false},
		{"GNU LESSER GENERAL PUBLIC LICENSE\nVersion 2.1", "GNU", false},
		{"All rights reserved.", "", false},
		{"", "", false},
	} {
		require.Equal(t, c.name, recognise(c.text))
		require.Equal(t, c.allowed, allowed(recognise(c.text)), c.name)
	}
}

// licensed is a module on the disk with these files about rights.
func licensed(t *testing.T, files map[string]string) *module {
	t.Helper()
	root := t.TempDir()
	deep := filepath.Join(root, "internal", "taken", "over")
	require.NoError(t, os.MkdirAll(deep, 0o700))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	m := &module{path: "example.org/module", version: "v1.2.3", root: root, folders: []string{root, deep}}
	require.NoError(t, m.read())
	return m
}

func TestWhatMayBeLinked(t *testing.T) {
	t.Parallel()
	require.NoError(t, licensed(t, map[string]string{"LICENSE": mit, "NOTICE": "Made by us.", "license_test.go": gpl}).refused())
	require.ErrorContains(t, licensed(t, nil).refused(), "example.org/module has no licence")
	require.ErrorContains(t, licensed(t, map[string]string{"NOTICE": "Made by us."}).refused(), "no licence")
	require.ErrorContains(t, licensed(t, map[string]string{"LICENSE.md": "Ask us."}).refused(), "LICENSE.md is of a kind that is not known")
	require.ErrorContains(t, licensed(t, map[string]string{"COPYING": gpl}).refused(), "COPYING is GNU")
	taken := licensed(t, map[string]string{"LICENSE": mit, "internal/taken/LICENSE": gpl})
	require.ErrorContains(t, taken.refused(), "GNU", "a package that was taken over keeps its licence")
}

func TestNoticesHaveAllTexts(t *testing.T) {
	t.Parallel()
	notices := string(text([]module{*licensed(t, map[string]string{"LICENSE": mit, "NOTICE.txt": "Made by us.\r\nAll of it.", "internal/taken/LICENSE": isc})}))
	require.Contains(t, notices, "example.org/module v1.2.3: LICENSE\n\nMIT License\n")
	require.Contains(t, notices, "v1.2.3: NOTICE.txt\n\nMade by us.\nAll of it.\n")
	require.Contains(t, notices, "v1.2.3: internal/taken/LICENSE\n\n"+isc)
}
