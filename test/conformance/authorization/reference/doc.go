// Package reference evaluates AuthorizationPolicies as Istio's public documentation describes them.
// It is a second, independent implementation: it shares no code with
// internal/translate/authorization or internal/diagnostics/explain, and a test checks that it
// imports nothing of this module. Differential tests compare the verdicts of a real Envoy with its
// verdicts.
//
// Inputs: policies as API objects, the workload that they apply to, and a call. Output: a verdict
// and the rules that match.
//
// Sources: the AuthorizationPolicy reference (security/v1beta1/authorization_policy.proto of
// istio.io/api), "Authorization Policy Conditions", "Authorization Policy Normalization",
// "Authorization for TCP traffic", "Trust Domain Migration", and the security bulletins
// ISTIO-SECURITY-2021-004, 2021-008 and 2026-007.
//
// The code favors obviousness over speed: it interprets policies directly and builds no
// intermediate form.
//
// Start with [Evaluate] in evaluate.go; rule.go has sources, operations and conditions, match.go
// the string forms, path.go the normalization levels.
package reference
