package cli

import "github.com/spf13/cobra"

// commandGroup is a group of commands in the help text and in docs/PILOTCTL.md.
type commandGroup struct {
	title string
	// commands are the names of commands of the root.
	commands []string
}

// commandGroups returns the groups in the order of a user's tasks. Each command of the root has a group.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"Health", []string{
			"check", "proxy-status", "problems", "nacks", "certificates", "registries", "remote-clusters", "metrics",
			"bug-report",
		}},
		{"Calls, objects and policies", []string{
			"explain", "why", "describe", "callers", "topology", "authz", "mtls", "services", "endpoints",
		}},
		{"Changes of configuration", []string{
			"analyze", "validate", "test", "diff", "wait", "changes", "history",
		}},
		{"Configuration of proxies", []string{
			"proxy-config", "translate", "compare", "rootca-compare",
		}},
		{"Installation, injection and revisions", []string{
			"check-migration", "revision", "tag", "check-inject", "inject", "create-remote-secret",
		}},
		{"The control plane itself", []string{
			"version", "log", "request", "dashboard",
		}},
		{"Without Kubernetes", []string{
			"mesh", "run", "workload", "adapter",
		}},
	}
}

// assignGroups adds the groups to the help text of the root, and assigns each command to its group.
// Names without a command are skipped.
func assignGroups(root *cobra.Command) {
	for _, g := range commandGroups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, name := range g.commands {
			if c := findCommand(root, name); c != nil {
				c.GroupID = g.title
			}
		}
	}
}

// findCommand returns the command with exactly this name directly below c, or nil. Aliases are not
// compared.
func findCommand(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name {
			return sub
		}
	}
	return nil
}
