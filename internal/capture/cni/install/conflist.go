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
	// standaloneName is the default file name if the plugin is not chained.
	standaloneName = "YYY-istio-cni.conf"
	// entryVersion is the CNI version of configurations that are created here.
	entryVersion = "0.3.1"
	// listName is the name of a list that is created from a single plugin.
	listName = "k8s-pod-network"
)

// errNoNetwork is returned until a network provider has written its configuration.
var errNoNetwork = errors.New("the node has no network configuration yet")

// configuration is a parsed CNI configuration file. Its other fields belong to other plugins and
// are preserved, including unknown ones.
type configuration map[string]any

// pluginList returns the entries of a configuration list, or an error if "plugins" is missing or no
// list.
func (c configuration) pluginList() ([]any, error) {
	list, ok := c["plugins"].([]any)
	if !ok {
		return nil, errors.New(`"plugins" is not a list`)
	}
	return list, nil
}

// parseConfiguration parses a configuration file. Numbers keep their spelling. Invalid JSON, JSON
// other than an object, and null are errors; text after the object is ignored.
func parseConfiguration(text []byte) (configuration, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // preserves the spelling of numbers
	var c configuration
	if err := d.Decode(&c); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, errors.New("the configuration is empty")
	}
	return c, nil
}

// asList returns the configuration of a single plugin as a list, and removes its cniVersion in
// place. Lists are returned unchanged.
func (c configuration) asList() configuration {
	if _, single := c["type"]; !single {
		return c
	}
	delete(c, "cniVersion")
	return configuration{"name": listName, "cniVersion": entryVersion, "plugins": []any{map[string]any(c)}}
}

// removeEntry returns a copy of the list without the plugin's own entries, and whether it had one.
func removeEntry(plugins []any) ([]any, bool) {
	rest := slices.DeleteFunc(slices.Clone(plugins), func(p any) bool {
		m, ok := p.(map[string]any)
		return ok && m["type"] == cni.Name
	})
	return rest, len(rest) < len(plugins)
}

// withEntry returns a configuration as a list with the plugin's entry as the last one, in place of
// an earlier entry. It returns an error if the text is no valid configuration.
func withEntry(text []byte, entry configuration) ([]byte, error) {
	c, err := parseConfiguration(text)
	if err != nil {
		return nil, err
	}
	c = c.asList()
	plugins, err := c.pluginList()
	if err != nil {
		return nil, err
	}
	plugins, _ = removeEntry(plugins)
	c["plugins"] = append(plugins, map[string]any(entry))
	return c.encode()
}

// withoutEntry returns a configuration without the plugin's entry, and whether it had one. If not,
// the text is unchanged, as it is for a configuration that is no list. It returns an error if the
// text is no valid configuration.
func withoutEntry(text []byte) ([]byte, bool, error) {
	c, err := parseConfiguration(text)
	if err != nil {
		return nil, false, err
	}
	if _, single := c["type"]; single {
		return text, false, nil
	}
	plugins, err := c.pluginList()
	if err != nil {
		return nil, false, err
	}
	plugins, was := removeEntry(plugins)
	if !was {
		return text, false, nil
	}
	c["plugins"] = plugins
	text, err = c.encode()
	return text, true, err
}

// encode returns the configuration as indented JSON that ends with a newline.
func (c configuration) encode() ([]byte, error) {
	text, err := json.MarshalIndent(c, "", "  ")
	return append(text, '\n'), err
}

// pluginEntry returns the plugin's entry for a list: o.Entry with the plugin's name and RunDir. The
// fields ipam and dns are left out.
func (o Options) pluginEntry() (configuration, error) {
	e := o.Entry
	e.Name, e.Type, e.RunDir = cni.Name, cni.Name, o.RunDir
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	c, err := parseConfiguration(text)
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"ipam", "dns"} { // encoded even if they are empty
		delete(c, key)
	}
	return c, nil
}

// configPath returns the path of the configuration for the plugin's entry: the file ConfName (see
// existingConfig), or else the first one in NetDir by name. Candidates end in .conf, .conflist or
// .json and are valid networks (isNetwork). It returns errNoNetwork if there is none. A standalone
// configuration need not exist, and has a default name.
func (o Options) configPath() (string, error) {
	switch {
	case o.Standalone && o.ConfName == "":
		return filepath.Join(o.NetDir, standaloneName), nil
	case o.Standalone:
		return filepath.Join(o.NetDir, o.ConfName), nil
	case o.ConfName != "":
		return existingConfig(filepath.Join(o.NetDir, o.ConfName))
	}
	files, err := os.ReadDir(o.NetDir) // sorted: runtimes use the first configuration
	if err != nil {
		return "", fmt.Errorf("list network configurations: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(o.NetDir, f.Name())
		if e := filepath.Ext(path); (e == ".conf" || e == listExtension || e == ".json") && isNetwork(path) {
			return path, nil
		}
	}
	return "", errNoNetwork
}

// existingConfig returns the first file that exists of path and path with the extension .conflist
// or .conf, because asList changes it. It returns errNoNetwork if there is none.
func existingConfig(path string) (string, error) {
	stem := strings.TrimSuffix(strings.TrimSuffix(path, listExtension), ".conf")
	for _, p := range []string{path, stem + listExtension, stem + ".conf"} {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", errNoNetwork
}

// isNetwork reports whether a file is a configuration that a runtime would use: it is readable,
// valid and has another plugin than this one.
func isNetwork(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	c, err := parseConfiguration(text)
	if err != nil {
		return false
	}
	plugins, err := c.asList().pluginList()
	rest, _ := removeEntry(plugins)
	return err == nil && len(rest) > 0
}
