// Package lint analyzes files with objects without a control plane or proxies. It implements
// pilotctl analyze and pilotctl validate.
//
// The inputs are files with manifests, and optionally a mesh configuration and mesh networks. The
// output is a sorted list of [Finding] values with a code, an object and the position of a field.
// The result depends only on the inputs and on Options.Now.
//
// The findings have three origins: decoding and validation of each object (internal/model/config);
// the analyses of a running control plane, on a snapshot that the same registries build from the
// objects (internal/diagnostics/analysis); and the checks in this package, which need objects that
// the control plane does not read, such as Deployments and webhooks, or that would be noise in a
// running mesh. Objects with errors take part as far as they can be read, so that one mistake does
// not hide or cause others.
//
// Start reading with [Analyze] in analyze.go. [Checks] in checks.go lists the checks of this
// package.
package lint
