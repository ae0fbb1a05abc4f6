// Package migration finds what changes for an installation of istiod when this control plane takes
// its place. It implements pilotctl check-migration.
//
// The inputs are the objects of an installation: the mesh's own, and the Deployments and ConfigMaps
// of istiod. The output is a [Report] of findings, each with the position of a field, what differs
// and what to do. The result depends on the inputs only.
//
// The findings have four origins:
//
//   - the differences from istiod, which the YAML files in differences list. Each has [Selector]
//     values: the fields, variables and flags that it applies to, with conditions in CEL. One
//     without selectors applies to every installation. docs/adr/0007-differences-from-istiod.md is
//     written from the same files;
//   - the analysis of package lint, of which only the findings about unsupported fields and invalid
//     objects are used;
//   - Helm values, compared with the table of manifests/helmvalues;
//   - the environment and the flags of istiod's containers, compared with docs/ENVIRONMENT.md and
//     with the flags of pilot-discovery.
//
// Start reading with [Check] in check.go.
package migration
