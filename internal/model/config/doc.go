// Package config is the objects that users write: what a Config is, how it is keyed, and what is wrong with it.
//
// In: decoded objects. Out: [Config] values with a content hash, and [Problem] values for what a user got wrong.
// Law: pure; knows no platform (it holds Kubernetes objects only as opaque specs) and nothing of Envoy.
//
// Start with [Config] in config.go and [Problem] in problem.go; validation has a file per kind, with [Validate] as the way in.
package config
