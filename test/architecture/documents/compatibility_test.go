package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// TestCompatibility: docs/COMPATIBILITY.md names the versions of go.mod and of the sources, and no others.
func TestCompatibility(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	find := func(path, pattern string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(read(path))
		if m == nil {
			t.Fatalf("%s has no %s", path, pattern)
		}
		return m[1]
	}
	list, err := exec.Command(filepath.Join(root, "hack/envoy.sh"), "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	older := strings.Fields(string(list))
	newest := find("test/support/envoy/binary.go", `const Version = "(.*)"`)
	if last := older[len(older)-1]; !strings.HasPrefix(newest, last+".") {
		t.Errorf("hack/envoy.sh ends with %s, tests have %s", last, newest)
	}
	older = older[:len(older)-1]

	table, _, _ := strings.Cut(read("docs/COMPATIBILITY.md"), "## How long")
	for _, row := range []struct{ component, tested, supported string }{
		{"Istio's API (`istio.io/api`)", find("go.mod", `istio.io/api v(\S+)`), ""},
		{"level of Istio that proxies report", obs.IstioLevel, ""},
		{"Envoy", newest, "and " + strings.Join(older, ", ") + ","},
		{
			"Kubernetes, servers",
			find("test/support/cluster/programs/kubernetes/go.mod", `k8s.io/kubernetes v(\S+)`),
			find("internal/diagnostics/check/cluster.go", `oldestKubernetes = "(.*)"`) + " and later",
		},
		{"Kubernetes, client libraries", find("go.mod", `k8s.io/client-go v(\S+)`), ""},
		{"Gateway API", find("go.mod", `sigs.k8s.io/gateway-api v(\S+)`), ""},
		{"Gateway API Inference Extension", find("go.mod", `sigs.k8s.io/gateway-api-inference-extension v(\S+)`), ""},
		{"Go, to build", find("go.mod", `(?m)^go (\S+)$`), ""},
	} {
		if want := "| " + row.component + " | " + row.tested + " | " + row.supported; !strings.Contains(table, want) {
			t.Errorf("docs/COMPATIBILITY.md has no row %q", want)
		}
	}
}

// permissive are phrases of the licenses that programs may contain modules of.
func permissive() map[string][]string {
	return map[string][]string{
		"Apache-2.0": {"apache license version 2.0", "apache license, version 2.0"},
		"MIT":        {"permission is hereby granted, free of charge"},
		"BSD":        {"redistribution and use in source and binary forms"},
		"ISC":        {"permission to use, copy, modify, and/or distribute this software", "permission to use, copy, modify, and distribute this software"},
		"MPL-2.0":    {"mozilla public license, version 2.0", "mozilla public license version 2.0"},
	}
}

// copyleft are phrases of licenses that must not be among them, also not beside a permissive one.
var copyleft = regexp.MustCompile(`gnu (affero |lesser )?general public license|server side public license|business source license`)

// TestLicenses: every module that is linked into a program has a permissive license.
func TestLicenses(t *testing.T) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}`
	cmd := exec.Command("go", "list", "-deps", "-f", format, "./cmd/...")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := slices.Compact(slices.Sorted(strings.Lines(string(out))))
	if len(modules) < 50 {
		t.Fatalf("%d modules: the test is not effective", len(modules))
	}
	for _, line := range modules {
		module, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if problem := licenseProblem(t, files); problem != "" {
			t.Errorf("%s: %s", module, problem)
		}
	}
}

// licenseProblem returns what is wrong with the license among the files of a module, or "".
func licenseProblem(t *testing.T, files []string) string {
	t.Helper()
	found := false
	for _, file := range files {
		name := strings.ToLower(filepath.Base(file))
		if !strings.HasPrefix(name, "licen") && !strings.HasPrefix(name, "copying") {
			continue
		}
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(strings.ToLower(string(text))), " ")
		head := words[:min(len(words), 1500)] // MPL-2.0 and Apache-2.0 mention others further down
		if phrase := copyleft.FindString(head); phrase != "" {
			return filepath.Base(file) + " is the " + phrase
		}
		for _, phrases := range permissive() {
			found = found || slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(words, phrase) })
		}
	}
	if !found {
		return "no license of the permitted ones is found"
	}
	return ""
}

// TestLicenseProblem: a copyleft license and an unknown one are reported.
func TestLicenseProblem(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"LICENSE", "Permission is hereby granted, free of charge, to any person", ""},
		{"COPYING", "GNU GENERAL PUBLIC LICENSE Version 3", "COPYING is the gnu general public license"},
		{"LICENSE.txt", "All rights reserved", "no license of the permitted ones is found"},
		{"README", "Permission is hereby granted, free of charge", "no license of the permitted ones is found"},
	} {
		file := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := licenseProblem(t, []string{file}); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.name, c.text, got, c.want)
		}
	}
}
