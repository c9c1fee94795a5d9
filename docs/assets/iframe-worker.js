// Search runs in a worker, which browsers do not allow on pages opened from a local folder (file://). There, this
// replaces `Worker` by a hidden frame that runs the same script. On a web server it does nothing.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    onmessage = null;
    onerror = null;

    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.ready = new Promise((resolve) => {
        const load = (address) =>
          new Promise((loaded) => {
            const script = inside.document.createElement("script");
            script.src = address;
            script.onload = loaded;
            script.onerror = (event) => this.onerror?.(event);
            inside.document.body.append(script);
          });
        inside.postMessage = (data) => this.deliver(data);
        inside.importScripts = (...addresses) =>
          addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
        load(String(url)).then(resolve);
      });
    }

    deliver(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data: structuredClone(data) }));
      });
    }

    terminate() {
      this.frame.remove();
    }
  };
}
