// Package e2e holds the tests that run a whole daemon in front of real servers and compare what clients see.
package e2e
