// Package sbom compares the list of components that "make sbom" wrote with the binary that it is about.
package sbom

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/require"
)

func TestBillNamesEveryModuleOfTheBinary(t *testing.T) {
	file, binary := os.Getenv("SBOM"), os.Getenv("BINARY")
	if file == "" || binary == "" {
		t.Skip("SBOM and BINARY are not set: make sbom does")
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var bill cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bill))
	require.Equal(t, cyclonedx.BOMFormat, bill.BOMFormat)
	require.GreaterOrEqual(t, bill.SpecVersion, cyclonedx.SpecVersion1_5)
	require.NotContains(t, string(text), os.Getenv("PWD"), "a folder of the machine that built it")

	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	main := bill.Metadata.Component
	require.Equal(t, info.Path[:strings.Index(info.Path, "/cmd/")], main.Name)
	require.Equal(t, os.Getenv("VERSION"), main.Version)
	require.Equal(t, cyclonedx.ComponentTypeApplication, main.Type)

	listed := map[string]cyclonedx.Component{}
	for _, c := range *bill.Components {
		listed[c.Name+" "+c.Version] = c
	}
	require.Contains(t, listed, "std "+info.GoVersion, "the standard library has faults, too")
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		c, ok := listed[module.Path+" "+module.Version]
		require.True(t, ok, "%s %s is in the binary", module.Path, module.Version)
		require.True(t, strings.HasPrefix(c.PackageURL, "pkg:golang/"+module.Path+"@"+module.Version), c.PackageURL)
		require.NotNil(t, c.Hashes, module.Path)
		require.NotNil(t, c.Evidence, "%s: no licence", module.Path)
		require.NotEmpty(t, *c.Evidence.Licenses, "%s: no licence", module.Path)
	}
	require.Len(t, listed, len(info.Deps)+1, "nothing that is not in the binary")
}
