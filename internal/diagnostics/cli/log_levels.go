package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/base/obs"
)

// logLevels returns the command that shows log levels through ControlZ, as istioctl admin log does.
// With --level it only sets levels, and prints nothing (setLevels). It requires access to the
// ControlZ port on the control plane's machine.
func (a *pageClient) logLevels() *cobra.Command {
	var address, levels string
	c := &cobra.Command{
		Use:     "log",
		Aliases: []string{"l"},
		Args:    cobra.NoArgs,
		Short:   "Show or change the log levels of the running control plane",
		Long: "log shows the scopes of the control plane's log with their levels, and with --level changes levels. It reads the ControlZ port of\n" +
			"one replica, at which only its own machine is answered: pilotctl dashboard controlz forwards that of a pod to an address for --ctrlz.",
		Example: "  pilotctl log --level ads:debug,model:warn",
		RunE: func(c *cobra.Command, _ []string) error {
			base := "http://" + address + "/scopej/"
			body, err := httpGet(c.Context(), base)
			if err != nil {
				return fmt.Errorf("ask for log scopes (--ctrlz %s): %w", address, err)
			}
			var scopes []obs.Scope
			if err := json.Unmarshal(body, &scopes); err != nil {
				return fmt.Errorf("read log scopes: %w", err)
			}
			if levels != "" {
				return setLevels(c, base, levels, scopes)
			}
			var rows [][]string
			for _, s := range scopes {
				rows = append(rows, []string{s.Name, s.Description, s.OutputLevel})
			}
			return a.printAnswer(c, answer{whole: scopes, header: "ACTIVE SCOPE\tDESCRIPTION\tLOG LEVEL", rows: rows})
		},
	}
	c.Flags().StringVar(&address, "ctrlz", "127.0.0.1:9876", "ControlZ port of the control plane")
	c.Flags().StringVar(&levels, "level", "", "levels to set: scope:level,scope:level, or a level for all scopes")
	return c
}

// setLevels sets the log levels in a list such as "warn,ads:debug" through the API at base. A level
// without a scope applies to all scopes. It returns an error for an unknown scope or a refused
// request; levels before it in the list remain set.
func setLevels(c *cobra.Command, base, levels string, scopes []obs.Scope) error {
	for part := range strings.SplitSeq(levels, ",") {
		name, level, one := strings.Cut(part, ":")
		if !one {
			level = name
		}
		for _, s := range scopes {
			if one && s.Name != name {
				continue
			}
			s.OutputLevel = level
			body, err := json.Marshal(s)
			if err != nil {
				return fmt.Errorf("set the level of %s: %w", s.Name, err)
			}
			if _, err := httpDo(
				c.Context(),
				http.MethodPut,
				base+url.PathEscape(s.Name),
				strings.NewReader(string(body)),
			); err != nil {
				return fmt.Errorf("set the level of %s: %w", s.Name, err)
			}
		}
		if one && !hasScope(scopes, name) {
			return fmt.Errorf("--level %q: there is no scope %q", part, name)
		}
	}
	return nil
}

// hasScope reports whether scopes has a log scope of that name.
func hasScope(scopes []obs.Scope, name string) bool {
	for _, s := range scopes {
		if s.Name == name {
			return true
		}
	}
	return false
}
