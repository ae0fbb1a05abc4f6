package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/internal/diagnostics/describe"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
)

// authzCommand returns the command "authz" with its subcommand "check", which lists the
// AuthorizationPolicies of a workload and whether its proxy was sent them. With --file, or without
// a name, it lists the policies of the dump alone.
func (a *pageClient) authzCommand() *cobra.Command {
	var s selection
	check := &cobra.Command{
		Use: "check [NAME[.NAMESPACE]]", Args: cobra.MaximumNArgs(1),
		Short: "List the AuthorizationPolicies that apply to a workload, and whether its proxy was sent them",
		Long: "authz check lists the AuthorizationPolicies that apply to a workload, in the order in which Envoy evaluates them: CUSTOM,\n" +
			"DENY, ALLOW, then AUDIT. STATUS compares them with the RBAC filters that the proxy was sent, in listeners and by ECDS: a policy\n" +
			"is SENT, NOT SENT, or STALE if the proxy has it although it does not apply any longer. A policy without rules matches no\n" +
			"request, so that an ALLOW policy without rules denies all. With --file, or --admin and no name, the policies are those of the dump alone.\n\n" +
			"pilotctl explain --inbound shows the verdict on one call.",
		Example: "  pilotctl authz check reviews-v1-7d6b.bookinfo\n  pilotctl authz check -f config_dump.json",
		RunE: func(c *cobra.Command, args []string) error {
			d, err := a.readDump(c, args, s)
			if err != nil {
				return err
			}
			var applied []describe.Policy
			if s.file == "" && len(args) > 0 {
				p, err := a.describeProxy(c, a.proxyName(args[0]))
				if err != nil {
					return err
				}
				applied = p.AuthorizationPolicies
			}
			return a.printAnswer(c, authzTable(applied, d.policies(), s.file != "" || len(args) == 0))
		},
	}
	s.addFlags(check)
	return groupCommand(&cobra.Command{Use: "authz", Short: "Inspect the access policies of a workload"}, check)
}

// appliedPolicy is a row of authz check.
type appliedPolicy struct {
	describe.Policy
	// Sent is the number of rules that the proxy has.
	Sent   int    `json:"sentRules"`
	Status string `json:"status"`
}

// authzTable returns the table of the policies that apply to a workload, followed by others that
// its proxy has, which are STALE. applied are the control plane's policies, sent the policies in
// the proxy's filters. An applied policy is SENT if sent has rules of it or it has no rules,
// otherwise NOT SENT. With fileOnly, the others are SENT instead of STALE; applied should then be
// empty.
func authzTable(applied []describe.Policy, sent []describe.Policy, fileOnly bool) answer {
	list := []appliedPolicy{}
	find := func(list []describe.Policy, p describe.Policy) int {
		return slices.IndexFunc(list, func(o describe.Policy) bool {
			return o.Namespace == p.Namespace &&
				o.Name == p.Name
		})
	}
	for _, p := range applied {
		row := appliedPolicy{Policy: p, Status: "NOT SENT"}
		if i := find(sent, p); i >= 0 {
			row.Sent = sent[i].Rules
		}
		if row.Sent > 0 || p.Rules == 0 {
			row.Status = "SENT"
		}
		list = append(list, row)
	}
	for _, p := range sent {
		if find(applied, p) < 0 {
			row := appliedPolicy{p, p.Rules, "STALE"}
			if fileOnly {
				row.Status = "SENT"
			}
			list = append(list, row)
		}
	}
	x := answer{whole: list, header: "ACTION\tAUTHORIZATION POLICY\tRULES\tSTATUS",
		none: "no AuthorizationPolicy applies: all calls are allowed"}
	x.name = func(row []string) string { return row[1] }
	for _, p := range list {
		action := p.Action
		if p.DryRun {
			action += " (dry run)"
		}
		x.rows = append(x.rows, []string{action, p.Name + "." + p.Namespace, strconv.Itoa(p.Rules), p.Status})
	}
	return x
}

// policies returns the AuthorizationPolicies in the RBAC filters of listeners and ECDS, sorted by
// action, namespace and name. Rules whose names have another form are left out; a prefix in the
// name marks CUSTOM policies. Rules counts each rule once, even if several filters have it. A
// policy with several actions or dry-run states is returned once, with an arbitrary one.
func (d *dump) policies() []describe.Policy {
	type key struct{ namespace, name string }
	found, rules := map[key]describe.Policy{}, map[key]map[string]bool{}
	add := func(action string, dryRun bool, policies map[string]any) {
		for name := range policies {
			rule, ok := explain.ParsePolicyName(name)
			if !ok {
				continue
			}
			k, action, dryRun := key{rule.Namespace, rule.Name}, action, dryRun
			if rule.Custom {
				action, dryRun = "CUSTOM", false
			}
			if rules[k] == nil {
				rules[k] = map[string]bool{}
			}
			rules[k][rule.Index] = true
			found[k] = describe.Policy{Namespace: k.namespace, Name: k.name, Action: action, Rules: len(rules[k]),
				DryRun: dryRun}
		}
	}
	for _, l := range d.Listeners {
		walkRules(l.raw, add)
	}
	for _, e := range d.Extensions {
		walkRules(e.raw, add)
	}
	list := slices.Collect(maps.Values(found))
	slices.SortFunc(list, func(a, b describe.Policy) int {
		return strings.Compare(fmt.Sprint(a.Action, a.Namespace, a.Name), fmt.Sprint(b.Action, b.Namespace, b.Name))
	})
	return list
}

// walkRules calls add for each object "rules" or "shadowRules" at any depth of a JSON text, in
// arbitrary order, with its action and policies. dryRun is set for shadowRules. An unset action is
// ALLOW, and LOG is AUDIT. policies may be nil. It does nothing if raw is malformed.
func walkRules(raw json.RawMessage, add func(action string, dryRun bool, policies map[string]any)) {
	var whole any
	if json.Unmarshal(raw, &whole) != nil {
		return
	}
	var walk func(v any)
	walk = func(v any) {
		switch x := v.(type) {
		case []any:
			for _, e := range x {
				walk(e)
			}
		case map[string]any:
			for k, e := range x {
				rules, ok := e.(map[string]any)
				if ok && (k == "rules" || k == "shadowRules") {
					policies, _ := rules["policies"].(map[string]any)
					action, _ := rules["action"].(string)
					names := map[string]string{"": "ALLOW", "LOG": "AUDIT"}
					add(cmp.Or(names[action], action), k == "shadowRules", policies)
				}
				walk(e)
			}
		}
	}
	walk(whole)
}
