package iptables

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// lockWait bounds the wait for the lock of iptables-legacy. iptables-nft has no lock.
const lockWait = "--wait=30"

// xtables is the backend of one variant of the iptables programs.
type xtables struct {
	variant  Variant
	legacy   bool // uses ip_tables, also if the program is just called iptables
	ipv4     programs
	ipv6     programs // empty if ip6tables is not installed, which is an error only if IPv6 is captured
	hasRules bool     // whether there is any rule in any table, ours or not
	env      []string

	tools Tools
	log   *slog.Logger
}

// programs holds the paths of one family's programs.
type programs struct{ save, restore string }

// name returns the name of the IPv4 program for logs and errors.
func (x *xtables) name() string { return toolName(IPv4, x.variant) }

// toolName returns the name of a variant's program, such as ip6tables-legacy.
func toolName(f Family, v Variant) string {
	if v == AnyVariant {
		return iptablesProgram(f)
	}
	return iptablesProgram(f) + "-" + string(v)
}

// programs returns a family's programs, and whether both are installed.
func (x *xtables) programs(f Family) (programs, bool) {
	p := x.ipv4
	if f == IPv6 {
		p = x.ipv6
	}
	return p, p.save != "" && p.restore != ""
}

// readTables returns our part of a family's tables, in the order of tableNames, each with its plan
// in want. If the family's programs are not installed, our part is empty; if iptables-save fails,
// that is an error. Without -t, it reads only existing tables and thus loads no kernel module.
func (x *xtables) readTables(ctx context.Context, f Family, want Ruleset) ([]change, error) {
	text := ""
	if p, ok := x.programs(f); ok {
		var err error
		if text, err = x.tools.Run(ctx, Call{Path: p.save, Env: x.env}); err != nil {
			return nil, err
		}
	}
	var tables []change
	for _, name := range tableNames() {
		wanted := newListing(want.Table(f, name))
		tables = append(tables, change{family: f, table: name, have: parseSave(text, name, wanted), want: wanted})
	}
	return tables, nil
}

// runTransaction runs one transaction by iptables-restore with these flags in addition to its own.
// It does nothing if the transaction is empty, and fails if the family's programs are not
// installed.
func (x *xtables) runTransaction(ctx context.Context, f Family, transaction string, flags ...string) error {
	if transaction == "" {
		return nil
	}
	p, ok := x.programs(f)
	if !ok {
		return fmt.Errorf("%s-restore is not installed, but %s is to be captured", toolName(f, x.variant), f)
	}
	args := append([]string{"--noflush"}, flags...)
	if x.legacy {
		args = append(args, lockWait)
	}
	x.log.Debug("running iptables transaction", "program", p.restore, "args", args, "input", transaction)
	_, err := x.tools.Run(ctx, Call{Path: p.restore, Args: args, Env: x.env, Stdin: transaction})
	return err
}

// present reports whether a table of either family has chains or rules of ours. It returns an error
// if a program fails.
func (x *xtables) present(ctx context.Context) (bool, error) {
	changes, err := x.readChanges(ctx, Ruleset{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(changes, func(c change) bool { return len(c.have) > 0 }), nil
}

// check returns an error that wraps ErrDrift, with the first difference, if the rules differ from
// want.
func (x *xtables) check(ctx context.Context, want Ruleset) error {
	changes, err := x.readChanges(ctx, want)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if diff := diffListings(c.have, c.want); len(diff) > 0 {
			return fmt.Errorf("%s: table %s: %s: %w", toolName(c.family, x.variant), c.table, diff[0], ErrDrift)
		}
	}
	return nil
}

// replace changes the rules to want. It only logs if they are applied already, unless ForceApply is
// set. It returns ErrDrift if there are different rules and neither Reconcile nor ForceApply is
// set.
func (x *xtables) replace(ctx context.Context, want Ruleset, o Options) error {
	changes, err := x.readChanges(ctx, want)
	if err != nil {
		return err
	}
	var differ, residue bool
	for _, c := range changes {
		diff := diffListings(c.have, c.want)
		differ = differ || len(diff) > 0
		if len(diff) > 0 && len(c.have) > 0 {
			residue = true
			x.log.Info("rules of an earlier run differ",
				"program", toolName(c.family, x.variant), "table", c.table, "diff", diff)
		}
	}
	switch {
	case !differ && !o.ForceApply:
		x.log.Info("rules are already applied", "backend", x.name())
		return nil
	case residue && !o.Reconcile && !o.ForceApply:
		return ErrDrift
	}
	if err := x.applyChanges(ctx, changes); err != nil {
		return err
	}
	x.log.Info("rules applied", "backend", x.name())
	return nil
}

// remove removes our rules of both families, in the opposite order of their application. In the
// kernel's chains, rules are ours if they are in known or jump to our chains (ownLines). If one
// transaction fails, the previous ones are undone.
func (x *xtables) remove(ctx context.Context, known Ruleset) error {
	changes, err := x.readChanges(ctx, known)
	if err != nil {
		return err
	}
	for i := range changes {
		changes[i].want = nil
	}
	slices.Reverse(changes)
	if err := x.applyChanges(ctx, changes); err != nil {
		return err
	}
	x.log.Info("rules removed", "backend", x.name())
	return nil
}

// change holds the existing and the wanted rules of a table.
type change struct {
	family     Family
	table      string
	have, want listing
}

// readChanges returns the changes of both families' tables in the order in which rules are applied.
// A family without wanted rules is included, because it may have rules of an earlier run.
func (x *xtables) readChanges(ctx context.Context, want Ruleset) ([]change, error) {
	var all []change
	for _, f := range []Family{IPv4, IPv6} {
		tables, err := x.readTables(ctx, f, want)
		if err != nil {
			return nil, err
		}
		all = append(all, tables...)
	}
	return all, nil
}

// applyChanges applies the changes. Each table is a separate transaction. If one fails, the
// previous ones are undone. A failure to undo is part of the error.
func (x *xtables) applyChanges(ctx context.Context, changes []change) error {
	for i, c := range changes {
		err := x.runTransaction(ctx, c.family, restoreInput(c.table, c.have, c.want))
		if err == nil {
			continue
		}
		for _, done := range changes[:i] {
			// Also if ctx has ended: a part of the rules would be worse than a delay.
			undo := restoreInput(done.table, done.want, done.have)
			if failed := x.runTransaction(context.WithoutCancel(ctx), done.family, undo); failed != nil {
				err = fmt.Errorf("%w; and undo the change of table %s of %s: %w", err, done.table, done.family, failed)
			}
		}
		return err
	}
	return nil
}

// checkUsable tests empty transactions on the tables of want without committing them. It returns an
// error if the kernel lacks support for the programs, or the programs of a family in want are not
// installed.
func (x *xtables) checkUsable(ctx context.Context, want Ruleset) error {
	for _, f := range []Family{IPv4, IPv6} {
		var text strings.Builder
		for _, t := range want.Tables {
			if t.Family == f {
				fmt.Fprintf(&text, "*%s\nCOMMIT\n", t.Name)
			}
		}
		if err := x.runTransaction(ctx, f, text.String(), "--test"); err != nil {
			return err
		}
	}
	return nil
}

// hasRule reports whether the output of iptables-save has a rule.
func hasRule(save string) bool {
	return strings.HasPrefix(save, "-A ") || strings.Contains(save, "\n-A ")
}
