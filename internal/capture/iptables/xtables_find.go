package iptables

import (
	"context"
	"fmt"
	"strings"
)

// findXtables returns the installed variants of iptables that can list rules: legacy and nft, or
// only o.Variant. If neither legacy nor nft is usable, it tries the programs without a suffix. If
// there are none, it returns an error with the reason of each.
func findXtables(ctx context.Context, o Options, env Environment) ([]*xtables, error) {
	variants := []Variant{LegacyVariant, NftVariant}
	if o.Variant != AnyVariant {
		variants = []Variant{o.Variant}
	}
	found, problem := openVariants(ctx, variants, o, env)
	if len(found) == 0 && o.Variant == AnyVariant {
		// A distribution with a single variant may install it under the plain name only.
		plain, plainProblem := openVariants(ctx, []Variant{AnyVariant}, o, env)
		found, problem = plain, joinErrors(problem, plainProblem)
	}
	if len(found) == 0 {
		return nil, problem
	}
	return found, nil
}

// openVariants returns the usable variants, and the joined errors of the others, which it logs at
// level debug. It returns both if some are usable.
func openVariants(
	ctx context.Context, variants []Variant, o Options, env Environment,
) (found []*xtables, problem error) {
	for _, v := range variants {
		x, err := openVariant(ctx, v, o, env)
		if err != nil {
			// Missing privileges are not fatal either: in a network namespace created together with
			// its user namespace, the kernel does not allow listing the tables of iptables-legacy,
			// but iptables-nft works.
			env.Log.Debug("cannot use a variant of iptables", "variant", toolName(IPv4, v), "error", err)
			problem = joinErrors(problem, err)
			continue
		}
		found = append(found, x)
	}
	return found, problem
}

// joinErrors joins two errors in one line. If first is nil, it returns second.
func joinErrors(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w; %w", first, second)
}

// openVariant finds the programs of a variant, whether they use ip_tables (x.legacy), and whether
// they have rules in any table. It returns an error if they are missing or cannot list rules;
// missing programs for IPv6 are one only with o.IPv6. In CNIMode they lock per network namespace.
func openVariant(ctx context.Context, v Variant, o Options, env Environment) (*xtables, error) {
	x := &xtables{variant: v, tools: env.Tools, log: env.Log}
	var err error
	if x.ipv4, err = findPrograms(IPv4, v, env.Tools); err != nil {
		return nil, err
	}
	if x.ipv6, err = findPrograms(IPv6, v, env.Tools); err != nil && o.IPv6 {
		return nil, err
	}
	version, err := x.tools.Run(ctx, Call{Path: x.ipv4.save, Args: []string{"--version"}})
	if err != nil {
		return nil, err
	}
	// Old legacy programs do not print their variant.
	x.legacy = !strings.Contains(version, "nf_tables")
	if o.CNIMode {
		// The lock file of iptables-legacy is shared with the node's own programs. A pod's
		// namespace only needs a lock of its own.
		x.env = []string{"XTABLES_LOCKFILE=" + namespacePath(o.NetworkNamespace)}
	}
	for _, f := range []Family{IPv4, IPv6} {
		p, ok := x.programs(f)
		if !ok {
			continue
		}
		text, err := x.tools.Run(ctx, Call{Path: p.save})
		if err != nil {
			return nil, err
		}
		x.hasRules = x.hasRules || hasRule(text)
	}
	return x, nil
}

// findPrograms returns the paths of the -save and -restore programs of a variant, or an error if
// one is not installed.
func findPrograms(f Family, v Variant, run Tools) (programs, error) {
	save, err := run.Find(toolName(f, v) + "-save")
	if err != nil {
		return programs{}, err
	}
	restore, err := run.Find(toolName(f, v) + "-restore")
	if err != nil {
		return programs{}, err
	}
	return programs{save: save, restore: restore}, nil
}

// selectXtables returns the first usable variant of found for the rules of want. legacy precedes if
// it has any rules, because rules in both kernel subsystems are hard to debug; then nft; then
// legacy without rules. If none is usable, it returns an error with the reasons.
func selectXtables(ctx context.Context, found []*xtables, want Ruleset) (*xtables, error) {
	var order []*xtables
	for _, prefer := range []func(*xtables) bool{
		func(x *xtables) bool { return x.legacy && x.hasRules },
		func(x *xtables) bool { return !x.legacy },
		func(x *xtables) bool { return x.legacy && !x.hasRules },
	} {
		for _, x := range found {
			if prefer(x) {
				order = append(order, x)
			}
		}
	}
	var problem error
	for _, x := range order {
		err := x.checkUsable(ctx, want)
		if err == nil {
			return x, nil
		}
		problem = joinErrors(problem, fmt.Errorf("%s is not usable: %w", x.name(), err))
	}
	return nil, problem
}
