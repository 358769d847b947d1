// Search from a folder: browsers refuse workers to pages that were opened as files. There, a worker
// is a hidden frame whose window takes and sends the worker's messages.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.loaded = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.inner.document.createElement("script");
        script.src = url;
        script.onload = resolve;
        script.onerror = reject;
        this.inner.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
