package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
)

const (
	listExtension = ".conflist"
	// aloneName is the file of a plugin that is not chained.
	aloneName = "YYY-istio-cni.conf"
	// entryVersion is what a configuration that is made here is written in.
	entryVersion = "0.3.1"
	// listName is the name of a list that is made of a single plugin.
	listName = "k8s-pod-network"
)

// errNoNetwork says that the node has no network configuration yet.
var errNoNetwork = errors.New("the node has no network configuration yet")

// configuration is a CNI configuration file as it was read: its fields belong to other plugins too, and those unknown here must stay.
type configuration map[string]any

// plugins gives the entries of a configuration list.
func (c configuration) plugins() ([]any, error) {
	list, ok := c["plugins"].([]any)
	if !ok {
		return nil, errors.New(`"plugins" is no list`)
	}
	return list, nil
}

func parse(text []byte) (configuration, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // numbers stay as they are written
	var c configuration
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("it is empty")
	}
	return c, nil
}

// asList makes a list of a configuration of a single plugin.
func (c configuration) asList() configuration {
	if _, single := c["type"]; !single {
		return c
	}
	delete(c, "cniVersion")
	return configuration{"name": listName, "cniVersion": entryVersion, "plugins": []any{map[string]any(c)}}
}

// without returns the list without our entry, and whether it was there.
func without(plugins []any) ([]any, bool) {
	rest := slices.DeleteFunc(slices.Clone(plugins), func(p any) bool {
		m, ok := p.(map[string]any)
		return ok && m["type"] == cni.Name
	})
	return rest, len(rest) < len(plugins)
}

// withEntry returns a configuration with our entry as the last of its plugins.
func withEntry(text []byte, entry configuration) ([]byte, error) {
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	c = c.asList()
	plugins, err := c.plugins()
	if err != nil {
		return nil, err
	}
	plugins, _ = without(plugins)
	c["plugins"] = append(plugins, map[string]any(entry))
	return c.text()
}

// withoutEntry returns a configuration without our entry, and whether it was there.
func withoutEntry(text []byte) ([]byte, bool, error) {
	c, err := parse(text)
	if err != nil {
		return nil, false, err
	}
	if _, single := c["type"]; single {
		return text, false, nil
	}
	plugins, err := c.plugins()
	if err != nil {
		return nil, false, err
	}
	plugins, was := without(plugins)
	if !was {
		return text, false, nil
	}
	c["plugins"] = plugins
	text, err = c.text()
	return text, true, err
}

func (c configuration) text() ([]byte, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	return append(text, '\n'), err
}

// entry is ours, as it stands in a list.
func (o Options) entry() (configuration, error) {
	e := o.Entry
	e.Name, e.Type, e.RunDir = cni.Name, cni.Name, o.RunDir
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	c, err := parse(text)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"ipam", "dns"} { // which are written though they are empty
		delete(c, key)
	}
	return c, nil
}

// configPath is the file that has, or is to have, our entry.
func (o Options) configPath() (string, error) {
	switch {
	case o.Alone && o.ConfName == "":
		return filepath.Join(o.NetDir, aloneName), nil
	case o.Alone:
		return filepath.Join(o.NetDir, o.ConfName), nil
	case o.ConfName != "":
		return existing(filepath.Join(o.NetDir, o.ConfName))
	}
	files, err := os.ReadDir(o.NetDir) // sorted: the runtime takes the first that is a configuration
	if err != nil {
		return "", fmt.Errorf("listing the network configurations: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(o.NetDir, f.Name())
		if e := filepath.Ext(path); (e == ".conf" || e == listExtension || e == ".json") && isNetwork(path) {
			return path, nil
		}
	}
	return "", errNoNetwork
}

// existing finds a configuration file under its name or, since asList renames one of a single plugin, with the other extension.
func existing(path string) (string, error) {
	stem := strings.TrimSuffix(strings.TrimSuffix(path, listExtension), ".conf")
	for _, p := range []string{path, stem + listExtension, stem + ".conf"} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errNoNetwork
}

// isNetwork reports whether a file is a configuration that a runtime would take.
func isNetwork(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	c, err := parse(text)
	if err != nil {
		return false
	}
	plugins, err := c.asList().plugins()
	rest, _ := without(plugins)
	return err == nil && len(rest) > 0
}
