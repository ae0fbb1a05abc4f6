package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
)

// completionTimeout bounds the requests of one completion.
const completionTimeout = 2 * time.Second

// lister returns the names that an argument or flag may have.
type lister func(c *cobra.Command) ([]string, error)

// addCompletion adds completion of the names of proxies, services and objects to all commands below
// c whose arguments they are. It also adds it to the flags --proxy and --delete. A command's own
// completion of arguments is kept.
func (a *pageClient) addCompletion(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.addCompletion(sub)
		var list lister
		switch {
		case slices.Contains([]string{"service", "endpoints", "callers"}, sub.Name()):
			list = a.serviceNames
		case slices.Contains([]string{"wait", "why", "history"}, sub.Name()):
			list = a.objectNames
		case strings.Contains(sub.Use, "NAME[.NAMESPACE]") || strings.Contains(sub.Use, "POD[.NAMESPACE]"):
			list = a.proxyNames
		}
		if list != nil && sub.ValidArgsFunction == nil {
			sub.ValidArgsFunction = a.completer(list, takesSeveral(sub))
		}
		if sub.Flags().Lookup("proxy") != nil {
			_ = sub.RegisterFlagCompletionFunc("proxy", a.completer(a.proxyNames, true)) // the flag exists
		}
		if sub.Flags().Lookup("delete") != nil {
			_ = sub.RegisterFlagCompletionFunc("delete", a.completer(a.objectNames, true)) // the flag exists
		}
	}
}

// takesSeveral reports whether a command has more than one argument of the kind of its first one.
func takesSeveral(c *cobra.Command) bool {
	return strings.Contains(c.Use, "...") || strings.Count(c.Use, "[.NAMESPACE]") > 1
}

// addFlagCompletion adds completion of --namespace, --context and --output to the root command.
func (a *pageClient) addFlagCompletion(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc(namespaceFlag, a.completer(a.namespaceNames, true)) // the flags exist
	_ = root.RegisterFlagCompletionFunc(contextFlag, a.completer(a.contextNames, true))
	_ = root.RegisterFlagCompletionFunc(outputFlag,
		cobra.FixedCompletions(outputFormats(), cobra.ShellCompDirectiveNoFileComp))
}

// completer returns a completion function for the names of a list that begin with the typed prefix,
// sorted, except names that are arguments already. It completes nothing if the settings are
// invalid, or if list fails or takes longer than completionTimeout. If several is false, it
// completes the first argument only. It sets the context of the command and discards its error
// output.
func (a *pageClient) completer(list lister, several bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		const none = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !several || a.applySettings(c) != nil {
			return nil, none
		}
		ctx, cancel := context.WithTimeout(cmp.Or[context.Context](c.Context(), context.Background()),
			completionTimeout)
		defer cancel()
		defer a.close()
		c.SetContext(ctx)
		c.SetErr(io.Discard)
		names, err := list(c)
		if err != nil {
			return nil, none
		}
		names = slices.DeleteFunc(names,
			func(n string) bool { return !strings.HasPrefix(n, prefix) || slices.Contains(args, n) })
		slices.Sort(names)
		return slices.Compact(names), none
	}
}

// proxyNames returns NAME.NAMESPACE of the connected proxies, sorted, of --namespace if that is
// set. A proxy with several connections is repeated. An error of reading them is returned.
func (a *pageClient) proxyNames(c *cobra.Command) (names []string, err error) {
	proxies, err := a.readProxies(c)
	if err != nil {
		return nil, err
	}
	for _, s := range proxies {
		names = append(names, s.Proxy)
	}
	return names, nil
}

// contextNames returns the contexts of the kubeconfig.
func (a *pageClient) contextNames(*cobra.Command) ([]string, error) { return a.options().Contexts() }

// serviceNames returns the hostnames of services, of --namespace if that is set. On an error, names
// may be incomplete.
func (a *pageClient) serviceNames(c *cobra.Command) (names []string, err error) {
	all, err := a.readServices(c)
	for _, s := range all {
		if a.namespace == "" || s.Attributes.Namespace == a.namespace {
			names = append(names, s.Hostname)
		}
	}
	return names, err
}

// objectNames returns the objects of --namespace, by default "default", as KIND/NAME. The kind is
// in lower case.
func (a *pageClient) objectNames(c *cobra.Command) (names []string, err error) {
	all, err := readFirst[readapi.ObjectList](a, c, "/objects", nil)
	for _, o := range all.Objects {
		if o.Namespace == cmp.Or(a.namespace, defaultNamespace) {
			names = append(names, strings.ToLower(o.Kind)+"/"+o.Name)
		}
	}
	return names, err
}

// namespaceNames returns the namespaces of proxies and services, perhaps repeated, or an error if
// proxies or services cannot be read. It clears a.namespace, because --namespace is being
// completed.
func (a *pageClient) namespaceNames(c *cobra.Command) ([]string, error) {
	a.namespace = "" // it is being completed
	proxies, err := a.proxyNames(c)
	if err != nil {
		return nil, err
	}
	all, err := a.readServices(c)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range proxies {
		_, namespace, _ := strings.Cut(p, ".")
		names = append(names, namespace)
	}
	for _, s := range all {
		names = append(names, s.Attributes.Namespace)
	}
	return names, nil
}
