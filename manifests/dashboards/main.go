package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := writeAll(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// pages returns all dashboards.
func pages() []page { return []page{controlPlane(), pushes(), proxies(), certificates()} }

// writeAll writes a file for each dashboard into a directory, which must exist.
func writeAll(dir string) error {
	for _, p := range pages() {
		text, err := p.encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, p.file()), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file returns the name of the dashboard's file.
func (p page) file() string { return p.name + ".json" }

// encode returns the dashboard as indented JSON.
func (p page) encode() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(p.dashboard())
	return text.Bytes(), err
}
