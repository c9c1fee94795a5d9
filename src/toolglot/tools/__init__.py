"""Tools as others define them: conversion between MCP definitions and results and the IR."""
