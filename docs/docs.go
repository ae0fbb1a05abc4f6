// Package docs embeds the documents whose tables programs read.
//
// The input is none, the output the text of a document as it was when the program was built. The
// package has no other code.
package docs

import "embed"

//go:embed ENVIRONMENT.md ENVIRONMENT-AGENT.md
var files embed.FS

// Environment returns docs/ENVIRONMENT.md, which lists the environment variables of pilot-discovery,
// or an error if it is not embedded.
func Environment() (string, error) { return read("ENVIRONMENT.md") }

// AgentEnvironment returns docs/ENVIRONMENT-AGENT.md, which lists the environment variables of
// pilot-agent, or an error if it is not embedded.
func AgentEnvironment() (string, error) { return read("ENVIRONMENT-AGENT.md") }

// read returns an embedded document.
func read(name string) (string, error) {
	text, err := files.ReadFile(name)
	return string(text), err
}
