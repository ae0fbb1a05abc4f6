package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
)

// Environment is what pilotctl reads of its surroundings besides its arguments. The zero value has
// none of it.
type Environment struct {
	// Variable returns an environment variable, or "".
	Variable func(name string) string
	// Home is the user's home directory.
	Home string
	// Terminal is true if the output is a terminal.
	Terminal bool
}

// variable returns an environment variable, or "".
func (e Environment) variable(name string) string {
	if e.Variable == nil {
		return ""
	}
	return e.Variable(name)
}

// variablePrefix begins the names of the environment variables of flags.
const variablePrefix = "PILOTCTL_"

// configVariable names the configuration file.
const configVariable = variablePrefix + "CONFIG"

// settableFlags returns the flags that the configuration file and environment variables can set.
func settableFlags() []string {
	return append(accessFlags(), namespaceFlag, outputFlag)
}

// variableOf returns the name of the environment variable of a flag: PILOTCTL_XDS_ADDRESS for
// "xds-address", PILOTCTL_ISTIO_NAMESPACE for "istioNamespace". Each upper-case letter begins a
// word.
func variableOf(flag string) string {
	var b strings.Builder
	for _, r := range flag {
		switch {
		case r == '-':
			r = '_'
		case r >= 'A' && r <= 'Z':
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return variablePrefix + strings.ToUpper(b.String())
}

// configPath returns the path of the configuration file, which need not exist, and whether
// PILOTCTL_CONFIG names it (chosen). Otherwise it is pilotctl.yaml in XDG_CONFIG_HOME or ~/.config.
// The path is "" if there is no home directory either.
func (e Environment) configPath() (path string, chosen bool) {
	if path := e.variable(configVariable); path != "" {
		return path, true
	}
	dir := e.variable("XDG_CONFIG_HOME")
	if dir == "" && e.Home != "" {
		dir = filepath.Join(e.Home, ".config")
	}
	if dir == "" {
		return "", false
	}
	return filepath.Join(dir, "pilotctl.yaml"), false
}

// readConfig returns the settings in the configuration file, by the names of flags. Without a file
// it returns nil, but an error if PILOTCTL_CONFIG names a file that does not exist. An unknown
// setting is an error.
func (e Environment) readConfig() (map[string]string, error) {
	path, chosen := e.configPath()
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !chosen {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration of pilotctl: %w", err)
	}
	values := map[string]string{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for name := range values {
		if !slices.Contains(settableFlags(), name) {
			return nil, fmt.Errorf("%s: there is no setting %q; the settings are %s", path, name,
				strings.Join(settableFlags(), ", "))
		}
	}
	return values, nil
}

// applySettings sets the flags that are not set on the command line from environment variables and
// the configuration file, in this order of precedence, and the paths of kubeconfigs. A setting of
// one of --server and --xds-address has no effect if the other one, --kubeconfig or --context is on
// the command line, which selects another way to the control plane. A command's own flag with the
// name of a setting is not set, unless it is --revision or one of clusterFlags. An invalid value is
// an error.
func (a *pageClient) applySettings(c *cobra.Command) error {
	values, err := a.environment.readConfig()
	if err != nil {
		return err
	}
	ways := []string{serverFlag, xdsAddressFlag, kubeconfigFlag, contextFlag}
	otherWay := slices.ContainsFunc(ways, func(name string) bool {
		f := c.Flags().Lookup(name)
		return f != nil && f.Changed
	})
	persistent := c.Root().PersistentFlags()
	for _, name := range settableFlags() {
		value, where := a.environment.variable(variableOf(name)), variableOf(name)
		if value == "" {
			value, where = values[name], "pilotctl.yaml: "+name
		}
		f := c.Flags().Lookup(name)
		switch {
		case value == "" || f == nil || f.Changed:
			continue
		case f != persistent.Lookup(name) && name != revisionFlag && !slices.Contains(clusterFlags(), name):
			continue // it has another meaning
		case otherWay && (name == serverFlag || name == xdsAddressFlag):
			continue
		}
		if err := f.Value.Set(value); err != nil { // not fs.Set: the flag is not on the command line
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	a.KubeconfigPaths = connect.KubeconfigPaths(a.environment.variable("KUBECONFIG"), a.environment.Home)
	return nil
}
